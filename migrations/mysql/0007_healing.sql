-- The circuit of an endpoint, for the whole fleet: who may ask a source that does not answer (INV-51).
-- Healers hold planning, and make the next plan end earlier.
-- Run again after an interruption, it finds the columns, which come together, and does nothing.
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'ing_source_control' AND column_name = 'circuit_code');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE ing_source_control
    ADD COLUMN circuit_code VARBINARY(16) NOT NULL DEFAULT ''CLOSED'',
    ADD COLUMN circuit_until DATETIME(6),
    ADD COLUMN circuit_epoch BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN held_until DATETIME(6),
    ADD COLUMN held_reason LONGTEXT,
    ADD COLUMN lag_raised_us BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;

-- Alarms: open_key is the alarm's key while it is on, so one cause is one row for the whole fleet.
CREATE TABLE IF NOT EXISTS ing_alarm (
    id BIGINT NOT NULL,
    open_key VARBINARY(512),
    kind_code VARBINARY(32) NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    what LONGTEXT NOT NULL,
    message LONGTEXT NOT NULL,
    status_code VARBINARY(16) NOT NULL CHECK (status_code IN ('OPEN','CLEARED')),
    told_code VARBINARY(16) NOT NULL CHECK (told_code IN ('NOTHING','RAISED','CLEARED')),
    telling_until DATETIME(6),
    raised_at DATETIME(6) NOT NULL,
    cleared_at DATETIME(6),
    PRIMARY KEY (id),
    UNIQUE KEY uk_alarm_open (open_key),
    KEY idx_alarm_told (told_code, status_code)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
