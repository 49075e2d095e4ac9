#!lua flags=allow-oom
-- ARGV: claim id, token, sequence, recovery point, state.
local sequence, point, state = ARGV[3], ARGV[4], ARGV[5]

local r = fields('status', 'claim_id', 'token', 'sequence', 'recovery_point')
if not held(r) then
  return 'lost'
end
if r.status == 'completed' or lower(sequence, r.sequence) then
  return 'done'
end
if sequence == r.sequence then
  local equal = point == r.recovery_point and state == fields('state').state
  return equal and 'done' or 'conflict'
end
redis.call('HSET', key, 'sequence', sequence, 'recovery_point', point, 'state', state, 'updated_at', decimal(clock()))
persist()
return 'done'
