-- The shared gate on database rows, and where the fleet's limits are kept now (INV-49).
CREATE TABLE ing_gate_mode (
    id INTEGER PRIMARY KEY,
    place_code TEXT NOT NULL CHECK (place_code IN ('REDIS','DATABASE')),
    epoch INTEGER NOT NULL,
    since_at TEXT NOT NULL
);
INSERT INTO ing_gate_mode (id, place_code, epoch, since_at) VALUES (1, 'DATABASE', 0, '1970-01-01T00:00:00.000000Z');

CREATE TABLE ing_rate (
    rate_key TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    state TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
