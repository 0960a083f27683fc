"""Source modules without a test module of their own, each with the test that runs it instead."""

TESTED_ELSEWHERE: dict[str, str] = {
    "infra/__main__.py": "tests/unit/infra/test_supervisor.py",
    "lakehouse/errors.py": "tests/unit/infra/test_cli_history.py",
    "lakehouse/gold_merge_spark.py": "tests/unit/lakehouse/test_gold_merge.py",
    "infra/demo/asked.py": "tests/integration/test_demo.py",
    "infra/demo/cluster.py": "tests/integration/test_demo.py",
    "infra/demo/load.py": "tests/integration/test_demo.py",
    "infra/demo/read_back.py": "tests/integration/test_demo.py",
}
# test modules of a whole package or of data
TESTS_WITHOUT_MODULE: tuple[str, ...] = (
    # the benchmark's arithmetic: its modules stand in tests/bench
    "bench/test_broker_rows.py",
    "bench/test_calls.py",
    "bench/test_control_log.py",
    "bench/test_figure.py",
    "bench/test_history_log.py",
    "bench/test_laid_lake.py",
    "bench/test_pipelined.py",
    "bench/test_report.py",
    "bench/test_samples.py",
    "bench/test_sender.py",
    "chaos/test_chaos_damage.py",
    "chaos/test_chaos_kill_points.py",
    "chaos/test_chaos_line.py",
    "chaos/test_chaos_network.py",
    "chaos/test_chaos_progress.py",
    "chaos/test_chaos_registrations.py",
    "chaos/test_chaos_run.py",
    "chaos/test_chaos_storm.py",
    "chaos/test_chaos_verdict.py",
    "chaos/test_chaos_write_journal.py",
    "equality/test_equality_comparison.py",
    "equality/test_equality_run.py",
    "elsewhere/test_elsewhere_run.py",
    "infra/test_lake_guide.py",
    "interop/test_interop_run.py",
    "lakehouse/test_generated_history.py",
    "interop/test_ledger.py",
    "bench/test_set_cost.py",
    "bench/test_syncs.py",
)
