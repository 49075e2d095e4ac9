#!lua flags=allow-oom
-- ARGV: claim id, token, ttl.
local r = fields('status', 'claim_id', 'token', 'locked_until', 'recovery_point', 'abandon', 'expires_at')
if not held(r) then
  return 'lost'
end
local now = clock()
local locked = now + ARGV[3]
if r.status == 'started' and locked > tonumber(r.locked_until) then
  redis.call('HSET', key, 'locked_until', decimal(locked), 'updated_at', decimal(now))
  age(r.recovery_point, now, tonumber(r.abandon), locked, tonumber(r.expires_at))
end
return 'done'
