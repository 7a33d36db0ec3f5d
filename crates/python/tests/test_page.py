"""The programs of docs/python.md."""

import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "python.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_of_the_page_run(dev, fs, number, capsys):
    program = PROGRAMS[number].replace("/etc/causeway.toml", dev.config)
    if "zarr" in program:
        pytest.importorskip("zarr")
    if "parquet" in program:
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        fs.makedirs("/tables", exist_ok=True)
        pandas.DataFrame({"a": [1]}).to_parquet("/tables/cities.parquet", filesystem=fs)
    exec(compile(program, str(PAGE), "exec"), {})


def test_there_are_programs():
    assert len(PROGRAMS) == 5
