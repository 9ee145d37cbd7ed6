-- Claims take turns over (provenance, endpoint, operation), then go by priority and time: one seek for each.
CREATE INDEX idx_task_claim ON ing_task (status_code, provenance_code, endpoint_name, operation_code, priority, scheduled_at, id);
DROP INDEX idx_task_src_op;
