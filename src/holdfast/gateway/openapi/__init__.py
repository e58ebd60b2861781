"""The OpenAPI document of the gateway: the native API and the proxy."""
