"""What a name server keeps over a restart."""

import pytest

from processors.nameserver.kept_files import KeptFile, NotKept
from processors.nameserver.kv import KvConfig, kv_of


def test_what_was_saved_is_loaded(tmp_path):
    KeptFile(tmp_path / "new", "f.json").save({"configTable": {"N": {"k": "v"}}})
    assert KeptFile(tmp_path / "new", "f.json").load(kv_of, KvConfig()).get("N", "k") == "v"


def test_without_a_file_there_is_nothing(tmp_path):
    assert KeptFile(tmp_path, "f.json").load(kv_of, None) is None


def test_without_a_folder_nothing_is_kept_and_the_way_out_is_named():
    file = KeptFile(None, "f.json")
    assert file.load(kv_of, None) is None
    with pytest.raises(NotKept, match="set data_dir"):
        file.save({})


@pytest.mark.parametrize("text", ["torn", "[]", '{"configTable":3}'])
def test_a_damaged_file_is_named_and_not_overwritten(tmp_path, caplog, text):
    (tmp_path / "f.json").write_text(text)
    file = KeptFile(tmp_path, "f.json")
    assert file.load(kv_of, None) is None and "damaged" in caplog.text
    file.save({"configTable": {}})
    assert (tmp_path / "f.damaged").read_text() == text


def test_a_disk_that_refuses_is_named(tmp_path):
    (tmp_path / "f.json").mkdir()
    with pytest.raises(NotKept, match="cannot be read"):
        KeptFile(tmp_path, "f.json").load(kv_of, None)
    with pytest.raises(NotKept, match="cannot be written"):
        KeptFile(tmp_path / "f.json" / "x", "f.json").save({}) or KeptFile(tmp_path, "f.json").save(
            {}
        )
