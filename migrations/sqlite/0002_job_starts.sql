-- Deliveries of a job that began and have not ended in order: what is left when a worker dies is a crash.
-- Only redeliveries are counted, so a job that goes well at once writes nothing here.
CREATE TABLE job_starts (
    tenant   TEXT    NOT NULL,
    -- The stream sequence of the job.
    sequence INTEGER NOT NULL,
    starts   INTEGER NOT NULL,
    PRIMARY KEY (tenant, sequence)
) STRICT, WITHOUT ROWID;
