import io

from infra.demo.console import Console


def test_in_a_file_the_live_line_is_sparse_and_steps_stand_alone() -> None:
    out = io.StringIO()
    console = Console(out)
    console.live = lambda: "live"
    console.tick()
    console.tick()
    console.say("step")
    assert out.getvalue() == "    live\nstep\n"


def test_on_a_terminal_the_live_line_is_wiped_before_a_step() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    console = Console(out)
    console.live = lambda: "live"
    console.tick()
    console.say("step")
    assert out.getvalue() == "\rlive\r    \rstep\n"
