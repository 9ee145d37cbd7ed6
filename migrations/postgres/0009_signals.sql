-- Hints that a record should be asked for again; closed when it was.

CREATE TABLE ing_signal (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    -- The endpoint's declared entity.
    endpoint_name TEXT COLLATE "C" NOT NULL,
    provider_id TEXT COLLATE "C" NOT NULL,
    kind_code TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    status_code TEXT COLLATE "C" NOT NULL CHECK (status_code IN ('OPEN','CLOSED')),
    created_at TIMESTAMPTZ NOT NULL,
    closed_at TIMESTAMPTZ,
    PRIMARY KEY (id)
);
CREATE INDEX idx_signal_open ON ing_signal (provenance_code, endpoint_name, status_code, id);
