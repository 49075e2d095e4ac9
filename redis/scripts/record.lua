-- What the scripts share about a record. It follows clock.lua.
--
-- A record is one hash. Times and durations are microseconds; a token is a time or one
-- more than the token before it: whole numbers below 2^53, all of them. Tokens and
-- sequences that come from a caller may be any int64: they stay decimal strings and are
-- never made numbers.

-- tostring(n) would keep 14 digits.
local function decimal(n)
  return string.format('%.0f', n)
end

-- Whether one positive decimal without leading zeros is lower than another.
local function lower(a, b)
  return #a < #b or (#a == #b and a < b)
end

-- The named fields of the record, '' for those it does not have. Every record has a status.
local function fields(...)
  local names, r = { ... }, {}
  local values = redis.call('HMGET', key, ...)
  for i, name in ipairs(names) do
    r[name] = values[i] or ''
  end
  return r
end

-- Whether the record is held by the claim of ARGV[1] with the token of ARGV[2]. No record,
-- or one without a claim, is held by nobody: a claim id is never empty.
local function held(r)
  return r.claim_id == ARGV[1] and r.token == ARGV[2]
end

-- Says when the server deletes a started record, which is when a sweep would: at the end of its
-- age, but not while its lease runs, and never once it has a recovery point.
local function age(point, updated, abandon, locked, expires)
  if point ~= '' then
    persist()
  else
    expire(math.max(updated + abandon, locked, expires))
  end
end
