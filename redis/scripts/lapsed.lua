#!lua flags=allow-oom
-- Not flagged no-writes: a replica must refuse it, since it may be behind.
--
-- Answers operation, token and attempt of a started record whose lease is over, else
-- nothing.
local r = fields('status', 'locked_until', 'operation', 'token', 'attempt')
local over = tonumber(r.locked_until or '')
if r.status ~= 'started' or not over or clock() < over then
  return {}
end
return { r.operation, r.token, r.attempt }
