"""Every whole remoting frame of the recordings, repeats of a shape included: read as the recorder
read it, written again to an equal command, and its JSON body, if it has one, read to a value that
ours writes again.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from brokers.remoting import fastjson
from brokers.remoting.codec import FrameDecoder, encode

# one line a frame: code, opaque, flag, the frame in hex
LINES = (
    gzip.decompress((Path(__file__).parent / ("every_frame.txt.gz")).read_bytes())
    .decode()
    .splitlines()
)


def test_every_frame_is_read_and_written_again() -> None:
    codes = set()
    for line in LINES:
        code, opaque, flag, text = line.split()
        (command,) = FrameDecoder().feed(bytes.fromhex(text))
        assert (command.code, command.opaque, command.flag) == (int(code), int(opaque), int(flag))
        (again,) = FrameDecoder().feed(encode(command))
        assert again == command
        codes.add(command.code)
    assert len(LINES) == 397 and len(codes) == 50


def test_every_json_body_is_read_and_written_to_an_equal_value() -> None:
    found = 0
    for line in LINES:
        (command,) = FrameDecoder().feed(bytes.fromhex(line.split()[3]))
        if command.body[:1] == b"{":
            found += 1
            once = fastjson.loads(fastjson.dumps(fastjson.loads(command.body)))
            assert fastjson.loads(fastjson.dumps(once)) == once
    assert found > 100
