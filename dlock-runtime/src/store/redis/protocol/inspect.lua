-- Tells all there is to know of a lock, and changes nothing.
--
-- KEYS[1]  the lock: a string `owner fence label`, or what another client wrote
-- KEYS[2]  its queue: owners by the time of their arrival, in ms
-- KEYS[3]  its living: the same owners by the time until which they count as alive
-- KEYS[4]  the last fence of the slot
-- ARGV[1]  how many waiters are told at the most
--
-- Returns {the first 512 bytes of the value, its SHA-1 or '' if there is no lock, TTL left in ms or -1
-- for none, last fence or '', server's time in s, and us, {owner, arrival, alive until, ...}, how many
-- waiters there are}.
--
-- It is one step so that the holder and the waiters are of the same moment. A value is told apart from
-- others by its SHA-1, since that of another client may be secret, and of any length.
--
-- What lies at the lock and is no string is an error; foreign data in place of the rest is left out.
local lock, queue, living = KEYS[1], KEYS[2], KEYS[3]

local value = redis.call('GET', lock)

-- The answer, or nil where there is none.
local function try(...)
  local answer = redis.pcall(...)
  if not answer or type(answer) == 'table' and answer.err then
    return nil
  end
  return answer
end

local waiters = {}
local queued = try('ZRANGE', queue, 0, tonumber(ARGV[1]) - 1, 'WITHSCORES') or {}
for at = 1, #queued, 2 do
  table.insert(waiters, queued[at])
  table.insert(waiters, queued[at + 1])
  table.insert(waiters, try('ZSCORE', living, queued[at]) or '0')
end

-- ZRANK of the last waiter instead of ZCARD: locks need permission for ZRANK anyway.
local last = (try('ZRANGE', queue, -1, -1) or {})[1]
local count = last and redis.call('ZRANK', queue, last) + 1 or 0

local time = redis.call('TIME')
return {value and string.sub(value, 1, 512) or '', value and redis.sha1hex(value) or '',
  redis.call('PTTL', lock), try('GET', KEYS[4]) or '', time[1], time[2], waiters, count}
