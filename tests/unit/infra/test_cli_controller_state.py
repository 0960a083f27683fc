from infra import cli


def test_nobody_there_is_one_line(capsys):  # type: ignore[no-untyped-def]
    assert cli.main(["controller", "status", "--controller", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("regent: no controller answers (127.0.0.1:1: ")
