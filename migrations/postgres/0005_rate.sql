-- The shared gate on database rows, and where the fleet's limits are kept now (INV-49).
CREATE TABLE ing_gate_mode (
    id BIGINT NOT NULL,
    place_code TEXT COLLATE "C" NOT NULL CHECK (place_code IN ('REDIS','DATABASE')),
    epoch BIGINT NOT NULL,
    since_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
INSERT INTO ing_gate_mode (id, place_code, epoch, since_at) VALUES (1, 'DATABASE', 0, '1970-01-01T00:00:00Z');

CREATE TABLE ing_rate (
    rate_key TEXT COLLATE "C" NOT NULL,
    epoch BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (rate_key)
);
