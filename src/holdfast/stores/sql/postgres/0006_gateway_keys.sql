-- Keys of the gateways on this database, with hashed secrets. A change names the version of the row that it saw.
CREATE TABLE holdfast.gateway_keys (
    name text PRIMARY KEY CHECK (length(name) <= 64),
    version bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    body bytea NOT NULL CHECK (length(body) <= 65536)
);
