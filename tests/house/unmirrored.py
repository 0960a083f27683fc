"""Source modules without a test module of their own, each with the test that runs it instead."""

TESTED_ELSEWHERE: dict[str, str] = {
    "infra/__main__.py": "tests/unit/infra/cluster/test_supervisor.py",
    "infra/cluster/flags.py": "tests/unit/infra/cli/test_main.py",
    "infra/cluster/running.py": "tests/integration/test_demo.py",
    "infra/demo/acting_blows.py": "tests/integration/test_acting_demo.py",
    "infra/demo/majority.py": "tests/integration/test_majority_demo.py",
    "infra/demo/majority_blows.py": "tests/integration/test_majority_demo.py",
    "infra/demo/controlled.py": "tests/integration/test_demo.py",
    "infra/demo/run.py": "tests/integration/test_demo.py",
    "infra/demo/load.py": "tests/integration/test_demo.py",
    "infra/demo/read_back.py": "tests/integration/test_demo.py",
}
# Folders of tests whose modules stand under `tests/` themselves.
TESTS_OF_TOOLS: tuple[str, ...] = ("bench", "chaos", "elsewhere", "equality", "interop")
