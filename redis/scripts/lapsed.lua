#!lua flags=allow-oom
-- Not flagged no-writes: a replica must refuse it, since it may be behind.
--
-- Answers operation, token and attempt of a started record whose lease is over, else
-- nothing.
local r = fields('status', 'locked_until', 'operation', 'token', 'attempt')
if r.status ~= 'started' or clock() < tonumber(r.locked_until) then
  return {}
end
return { r.operation, r.token, r.attempt }
