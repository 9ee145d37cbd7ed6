-- The holder of a task that lost leases before says when it asks for the page: only then a loss is the page's (INV-25).
ALTER TABLE ing_task ADD COLUMN asked_epoch BIGINT NOT NULL DEFAULT 0;
