-- What depends on the server's clock. It comes first in every script.
local key = KEYS[1]

-- Microseconds since 1970, asked once per script: below 2^53 until the year 2255, so that
-- a Lua number holds them exactly.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Lets the server delete the record by itself, not before that microsecond.
local function expire(at)
  redis.call('PEXPIREAT', key, string.format('%.0f', math.ceil(at / 1000)))
end

local function persist()
  redis.call('PERSIST', key)
end
