-- A record that its source has no more keeps when that was seen, and which record stands in its place; fields that were
-- filled in or mapped anew have a hash of their own. A refresh may only fill in what is empty.
-- Run again after an interruption, it finds what is there and does nothing.
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'ing_record' AND column_name = 'gone_at');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE ing_record ADD COLUMN gone_at DATETIME(6)', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'ing_record' AND column_name = 'merged_into');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE ing_record ADD COLUMN merged_into VARBINARY(2048)', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'ing_record' AND column_name = 'fields_hash');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE ing_record ADD COLUMN fields_hash BINARY(32)', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'ing_outbox' AND column_name = 'merged_into');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE ing_outbox ADD COLUMN merged_into VARBINARY(2048)', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'reg_prov_batching_cfg' AND column_name = 'is_fill_only');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE reg_prov_batching_cfg ADD COLUMN is_fill_only BIGINT', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'ing_signal' AND index_name = 'idx_signal_name');
SET @patra_change = IF(@patra_missing, 'CREATE INDEX idx_signal_name ON ing_signal (provenance_code, endpoint_name, status_code, provider_id)', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
-- What is in quarantine is signalled from now on by the page that put it there.
INSERT INTO ing_signal (id, provenance_code, endpoint_name, provider_id, kind_code, reason, actor, status_code, created_at)
SELECT MIN(id), provenance_code, endpoint_name, provider_id, 'QUARANTINE', 'in quarantine before signals were given', 'patra', 'OPEN', MAX(created_at)
  FROM ing_quarantine WHERE status_code = 'OPEN' AND provider_id IS NOT NULL
 GROUP BY provenance_code, endpoint_name, provider_id
ON DUPLICATE KEY UPDATE ing_signal.id = ing_signal.id;
