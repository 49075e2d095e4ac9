#!lua flags=allow-oom
-- ARGV: claim id, token, sequence, then the response: tombstone, status, header, body.
local sequence, tombstone, status, header, body = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
assert(body, 'arguments are missing') -- nothing is undone

local r = fields('status', 'claim_id', 'token', 'sequence', 'retention', 'expires_at')
if not held(r) then
  return 'lost'
end
if lower(sequence, r.sequence) then
  return 'done'
end
if r.status == 'completed' then
  local stored = fields('tombstone', 'response_status', 'header', 'body')
  local equal = tombstone == stored.tombstone and status == stored.response_status
    and header == stored.header and body == stored.body
  return equal and 'done' or 'conflict'
end
if sequence == r.sequence then
  return 'conflict'
end
local now = clock()
local expires = math.max(now + r.retention, tonumber(r.expires_at))
redis.call('HDEL', key, 'state', 'payload', 'locked_until')
redis.call('HSET', key, 'status', 'completed', 'sequence', sequence,
  'tombstone', tombstone, 'response_status', status, 'header', header, 'body', body,
  'completed_at', decimal(now), 'updated_at', decimal(now),
  'expires_at', decimal(expires))
if tombstone == 'abandoned' then
  persist()
else
  expire(expires)
end
return 'done'
