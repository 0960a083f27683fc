"""One controller process: sockets, HTTP pages, the loop that carries out effects."""
