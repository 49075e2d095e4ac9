#!lua flags=allow-oom
-- Answers 1 if the record was changed. Of those that the server deletes by itself none comes
-- here; what is left to do is to make an abandoned run a tombstone.
local r = fields('status', 'tombstone', 'recovery_point', 'abandon', 'retention',
  'locked_until', 'updated_at', 'completed_at', 'expires_at')
local now = clock()
if r.expires_at == '' or now < tonumber(r.expires_at) then
  return 0
end
if r.status == 'completed' then
  local over = r.completed_at + r.retention
  if r.tombstone == 'abandoned' then
    redis.call('HDEL', key, 'expires_at')
  elseif now < over then
    redis.call('HSET', key, 'expires_at', decimal(over))
  else
    redis.call('DEL', key)
  end
  return 1
end
local due = math.max(r.updated_at + r.abandon, tonumber(r.locked_until))
if now < due then
  redis.call('HSET', key, 'expires_at', decimal(due))
elseif r.recovery_point == '' then
  redis.call('DEL', key)
else
  -- The claim id stays: late writes of the last holder find a completed record.
  redis.call('HDEL', key, 'locked_until', 'expires_at')
  redis.call('HSET', key, 'status', 'completed', 'tombstone', 'abandoned', 'response_status', '0',
    'completed_at', decimal(now), 'updated_at', decimal(now))
end
return 1
