"""pandas, pyarrow and zarr, as docs/python.md shows them."""

import pytest


def test_pandas(dev, place):
    pandas = pytest.importorskip("pandas")
    options = {"config": dev.config}
    table = pandas.DataFrame({"city": ["Ulm", "Köln"], "people": [128_000, 1_087_000]})
    table.to_csv(f"causeway://{place}/cities.csv", index=False, storage_options=options)
    again = pandas.read_csv(f"causeway://{place}/cities.csv", storage_options=options)
    assert again.equals(table)
    pytest.importorskip("pyarrow")
    table.to_parquet(f"causeway://{place}/cities.parquet", storage_options=options)
    assert pandas.read_parquet(f"causeway://{place}/cities.parquet", storage_options=options).equals(table)


def test_pyarrow(fs, place):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.dataset
    import pyarrow.parquet

    table = pyarrow.table({"year": [2000, 2001] * 50_000, "value": list(range(100_000))})
    pyarrow.parquet.write_to_dataset(table, place + "/set", partition_cols=["year"], filesystem=fs)
    dataset = pyarrow.dataset.dataset(place + "/set", filesystem=fs, partitioning="hive")
    found = dataset.to_table(filter=pyarrow.dataset.field("year") == 2001)
    assert found.num_rows == 50_000 and found["value"][0].as_py() == 1


def test_zarr(fs, place):
    zarr = pytest.importorskip("zarr")
    numpy = pytest.importorskip("numpy")
    store = zarr.storage.FsspecStore.from_url(f"causeway://{place}/array.zarr", storage_options=fs.storage_options)
    array = zarr.create_array(store, shape=(1000, 1000), chunks=(250, 250), dtype="f4")
    array[:, :] = numpy.arange(1_000_000, dtype="f4").reshape(1000, 1000)
    again = zarr.open_array(store, mode="r")
    assert again[123, 456] == 123_456.0 and again[:].sum(dtype="f8") == 499_999_500_000.0
