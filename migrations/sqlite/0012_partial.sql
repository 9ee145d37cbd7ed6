-- A plan whose slices do not all have a task yet keeps what those tasks are going to be. What a task is expected to cost
-- is reserved of a budget while the task is open.
ALTER TABLE ing_plan_slice ADD COLUMN held_task TEXT;
ALTER TABLE ing_plan_slice ADD COLUMN held_priority INTEGER;
ALTER TABLE ing_task ADD COLUMN expected_requests INTEGER NOT NULL DEFAULT 0;
-- Credentials of a source that are used together.
ALTER TABLE reg_prov_credential ADD COLUMN is_pooled INTEGER;
