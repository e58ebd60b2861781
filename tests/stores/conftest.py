"""The contracts are plain modules: pytest must be told to explain their assertions."""

import pytest

for _group in ("", "_feeds", "_leases", "_log", "_search", "_sessions"):
    pytest.register_assert_rewrite(f"holdfast.testing.store_promises{_group}")
pytest.register_assert_rewrite("holdfast.testing.blobs_contract")
