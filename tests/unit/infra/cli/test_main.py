import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_USAGE


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--help"]) == EXIT_DONE
    text = capsys.readouterr().out
    assert all(f"  {verb} " in text for verb in main.VERBS)


def test_no_verb_is_wrong_usage_and_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == EXIT_USAGE
    assert "usage: regent VERB" in capsys.readouterr().out


@pytest.mark.parametrize("verb", main.VERBS)
def test_every_verb_explains_itself_with_an_example(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([verb, "--help"]) == EXIT_DONE
    text = capsys.readouterr().out
    assert f"usage: regent {verb}" in text and f"regent {verb}" in text.split("examples:")[1]


@pytest.mark.parametrize("verb", main.VERBS)
def test_an_unknown_option_is_wrong_usage(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([verb, "--no-such-option"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert (
        said.count("\n") == 1
        and said.startswith(f"regent: {verb}: ")
        and (f"'regent {verb} --help'") in said
    )


def test_an_unknown_verb_is_wrong_usage_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["statsu"]) == EXIT_USAGE
    assert capsys.readouterr().err == (
        "regent: unknown command 'statsu'. Did you mean 'regent status'?\n"
    )


def test_a_problem_is_one_line_on_stderr(
    tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["status", "--dir", str(tmp_path)]) == EXIT_USAGE
    captured = capsys.readouterr()
    assert (
        captured.out == ""
        and captured.err.count("\n") == 1
        and captured.err.startswith("regent: no cluster in ")
    )


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--version"]) == EXIT_DONE
    assert capsys.readouterr().out == f"regent {main.RELEASE}\n"
