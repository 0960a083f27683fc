"""Source modules without a test module of their own, each with the test that runs it instead."""

TESTED_ELSEWHERE: dict[str, str] = {}
# test modules of a whole package or of data
TESTS_WITHOUT_MODULE: tuple[str, ...] = ()
