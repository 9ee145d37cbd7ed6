-- The shared gate on database rows, and where the fleet's limits are kept now (INV-49).
CREATE TABLE IF NOT EXISTS ing_gate_mode (
    id BIGINT NOT NULL,
    place_code VARBINARY(16) NOT NULL CHECK (place_code IN ('REDIS','DATABASE')),
    epoch BIGINT NOT NULL,
    since_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
INSERT INTO ing_gate_mode (id, place_code, epoch, since_at) VALUES (1, 'DATABASE', 0, '1970-01-01 00:00:00')
ON DUPLICATE KEY UPDATE id = id;

CREATE TABLE IF NOT EXISTS ing_rate (
    rate_key VARBINARY(255) NOT NULL,
    epoch BIGINT NOT NULL,
    state LONGTEXT NOT NULL,
    updated_at DATETIME(6) NOT NULL,
    PRIMARY KEY (rate_key)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
