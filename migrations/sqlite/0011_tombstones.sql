-- A record that its source has no more keeps when that was seen, and which record stands in its place; fields that were
-- filled in or mapped anew have a hash of their own. A refresh may only fill in what is empty.
ALTER TABLE ing_record ADD COLUMN gone_at TEXT;
ALTER TABLE ing_record ADD COLUMN merged_into TEXT;
ALTER TABLE ing_record ADD COLUMN fields_hash BLOB;
ALTER TABLE ing_outbox ADD COLUMN merged_into TEXT;
ALTER TABLE reg_prov_batching_cfg ADD COLUMN is_fill_only INTEGER;
CREATE INDEX idx_signal_name ON ing_signal (provenance_code, endpoint_name, status_code, provider_id);
-- What is in quarantine is signalled from now on by the page that put it there.
INSERT INTO ing_signal (id, provenance_code, endpoint_name, provider_id, kind_code, reason, actor, status_code, created_at)
SELECT MIN(id), provenance_code, endpoint_name, provider_id, 'QUARANTINE', 'in quarantine before signals were given', 'patra', 'OPEN', MAX(created_at)
  FROM ing_quarantine WHERE status_code = 'OPEN' AND provider_id IS NOT NULL
 GROUP BY provenance_code, endpoint_name, provider_id;
