#!lua
-- Without allow-oom: a server that is full takes no new work, only the end of what runs.
--
-- ARGV: claim id, operation, method, path, payload, lease, retention, abandon,
-- refuse takeover, revive, then version and sum of each fingerprint, the newest first.
-- Answers whether the record is acquired, the time, and the record.
local id, operation, method, path, payload = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local lease, retention, abandon = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local refuse, revive = ARGV[9] == '1', ARGV[10] == '1'
assert(lease and retention and abandon and ARGV[12], 'arguments are missing') -- nothing is undone

local now = clock()
local r = fields('status', 'claim_id', 'token', 'attempt', 'method', 'path', 'fingerprint_version', 'fingerprint',
  'recovery_point', 'tombstone', 'abandon', 'retention', 'locked_until', 'completed_at', 'expires_at')

local function answer(acquired)
  return { acquired, decimal(now), redis.call('HGETALL', key) }
end

local function same_request()
  if method ~= r.method or path ~= r.path then
    return false
  end
  for i = 11, #ARGV, 2 do
    if ARGV[i] == r.fingerprint_version then
      return ARGV[i + 1] == r.fingerprint
    end
  end
  return false
end

local function expired()
  return r.status == 'completed' and r.tombstone ~= 'abandoned' and now >= r.completed_at + r.retention
end

local token, attempt = now, 1
if r.status ~= '' then
  token = math.max(r.token + 1, now)
end
if r.status == '' or expired() then
  r.recovery_point, r.expires_at = '', now + lease + retention
  redis.call('DEL', key)
  redis.call('HSET', key, 'status', 'started', 'operation', operation, 'method', method, 'path', path,
    'fingerprint_version', ARGV[11], 'fingerprint', ARGV[12], 'payload', payload,
    'created_at', decimal(now), 'expires_at', decimal(r.expires_at))
else
  local own = r.claim_id == id
  local alive = r.status == 'started' and now < tonumber(r.locked_until)
  local revived = revive and r.status == 'completed' and r.tombstone == 'abandoned'
  if not same_request() or (r.status == 'completed' and not revived) or (alive and not own)
    or (refuse and r.recovery_point == '' and not own) then
    return answer(0)
  end
  if alive then
    return answer(1)
  end
  if revived then
    r.expires_at = now + lease + retention
    redis.call('HDEL', key, 'tombstone', 'response_status', 'header', 'body', 'completed_at')
    redis.call('HSET', key, 'status', 'started', 'expires_at', decimal(r.expires_at))
  elseif own then
    redis.call('HSET', key, 'locked_until', decimal(now + lease), 'updated_at', decimal(now))
    age(r.recovery_point, now, tonumber(r.abandon), now + lease, tonumber(r.expires_at))
    return answer(1)
  end
  attempt = r.attempt + 1
end

redis.call('HSET', key, 'claim_id', id, 'token', decimal(token), 'sequence', '0', 'attempt', decimal(attempt),
  'lease', ARGV[6], 'retention', ARGV[7], 'abandon', ARGV[8],
  'locked_until', decimal(now + lease), 'updated_at', decimal(now))
age(r.recovery_point, now, abandon, now + lease, tonumber(r.expires_at))
return answer(1)
