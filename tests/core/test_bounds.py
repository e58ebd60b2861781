"""Which sessions follow a client of the drop-in endpoints."""

from holdfast.core.limits.bounds import is_proxy_session


def test_a_session_of_the_drop_in_endpoints_is_known_by_its_key_whoever_it_belongs_to() -> None:
    keys = ["dropin:a", "@ann/dropin:a", "telegram:42", "@ann/telegram:42", "x/dropin:a"]
    assert [key for key in keys if is_proxy_session(key)] == ["dropin:a", "@ann/dropin:a"]
