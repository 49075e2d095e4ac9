#!lua flags=allow-oom
-- Not flagged no-writes: a replica must refuse it, since it may be behind.
--
-- Answers the time and the record, empty if there is none.
return { decimal(clock()), redis.call('HGETALL', key) }
