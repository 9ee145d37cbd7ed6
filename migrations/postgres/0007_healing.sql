-- The circuit of an endpoint, for the whole fleet: who may ask a source that does not answer (INV-51).
ALTER TABLE ing_source_control ADD COLUMN circuit_code TEXT COLLATE "C" NOT NULL DEFAULT 'CLOSED';
ALTER TABLE ing_source_control ADD COLUMN circuit_until TIMESTAMPTZ;
ALTER TABLE ing_source_control ADD COLUMN circuit_epoch BIGINT NOT NULL DEFAULT 0;
-- Healers hold planning, and make the next plan end earlier.
ALTER TABLE ing_source_control ADD COLUMN held_until TIMESTAMPTZ;
ALTER TABLE ing_source_control ADD COLUMN held_reason TEXT COLLATE "C";
ALTER TABLE ing_source_control ADD COLUMN lag_raised_us BIGINT NOT NULL DEFAULT 0;

-- Alarms: open_key is the alarm's key while it is on, so one cause is one row for the whole fleet.
CREATE TABLE ing_alarm (
    id BIGINT NOT NULL,
    open_key TEXT COLLATE "C",
    kind_code TEXT COLLATE "C" NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    what TEXT COLLATE "C" NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    status_code TEXT COLLATE "C" NOT NULL CHECK (status_code IN ('OPEN','CLEARED')),
    told_code TEXT COLLATE "C" NOT NULL CHECK (told_code IN ('NOTHING','RAISED','CLEARED')),
    telling_until TIMESTAMPTZ,
    raised_at TIMESTAMPTZ NOT NULL,
    cleared_at TIMESTAMPTZ,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_alarm_open ON ing_alarm (open_key);
CREATE INDEX idx_alarm_told ON ing_alarm (told_code, status_code);
