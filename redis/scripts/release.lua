#!lua flags=allow-oom
-- ARGV: claim id, token.
local r = fields('status', 'claim_id', 'token', 'recovery_point')
if r.claim_id == '' then
  return 'done'
end
if not held(r) then
  return 'lost'
end
if r.status == 'completed' then
  return 'done'
end
if r.recovery_point == '' then
  redis.call('DEL', key)
else
  local now = decimal(clock())
  redis.call('HSET', key, 'claim_id', '', 'locked_until', now, 'updated_at', now)
end
return 'done'
