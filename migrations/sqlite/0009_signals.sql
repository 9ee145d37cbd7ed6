-- Hints that a record should be asked for again; closed when it was.

CREATE TABLE ing_signal (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    -- The endpoint's declared entity.
    endpoint_name TEXT NOT NULL,
    provider_id TEXT NOT NULL,
    kind_code TEXT NOT NULL,
    reason TEXT NOT NULL,
    actor TEXT NOT NULL,
    status_code TEXT NOT NULL CHECK (status_code IN ('OPEN','CLOSED')),
    created_at TEXT NOT NULL,
    closed_at TEXT
);
CREATE INDEX idx_signal_open ON ing_signal (provenance_code, endpoint_name, status_code, id);
