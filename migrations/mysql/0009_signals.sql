-- Hints that a record should be asked for again; closed when it was.

CREATE TABLE IF NOT EXISTS ing_signal (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(255) NOT NULL,
    -- The endpoint's declared entity.
    endpoint_name VARBINARY(255) NOT NULL,
    provider_id VARBINARY(2048) NOT NULL,
    kind_code VARBINARY(255) NOT NULL,
    reason LONGTEXT NOT NULL,
    actor LONGTEXT NOT NULL,
    status_code VARBINARY(255) NOT NULL CHECK (status_code IN ('OPEN','CLOSED')),
    created_at DATETIME(6) NOT NULL,
    closed_at DATETIME(6),
    PRIMARY KEY (id),
    KEY idx_signal_open (provenance_code, endpoint_name, status_code, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
