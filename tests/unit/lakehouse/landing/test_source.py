from pathlib import Path

from lakehouse.landing.source import finished_offsets


def write(checkpoint: Path, batch: int, text: str, *, finished: bool = True) -> None:
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch)).write_text(text)
    if finished:
        (checkpoint / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_the_last_finished_batch_counts(tmp_path: Path) -> None:
    write(tmp_path, 9, 'v1\n{}\n{"a":{"0":5}}')
    write(tmp_path, 10, 'v1\n{}\n{"a":{"0":7,"1":2},"b":{"0":1}}')
    write(tmp_path, 11, 'v1\n{}\n{"a":{"0":9}}', finished=False)
    assert finished_offsets(f"file:{tmp_path}") == {"a-0": 7, "a-1": 2, "b-0": 1}


def test_what_is_not_understood_counts_as_nothing(tmp_path: Path) -> None:
    assert finished_offsets(str(tmp_path / "none")) == {}
    write(tmp_path, 0, "v9\n-\n-")
    assert finished_offsets(f"file:{tmp_path}") == {}
    assert finished_offsets("s3a://bucket/checkpoints/first") == {}
