-- Tells all there is to know of a lock, and changes nothing.
--
-- KEYS[1]  the lock: a string `owner fence label`, a hash if it is shared, or what another client wrote
-- KEYS[2]  its queue: owners by the time of their arrival, in ms
-- KEYS[3]  its living: the same owners by the time until which they count as alive
-- KEYS[4]  the last fence of the slot
-- ARGV[1]  how many waiters are told at the most, and how many of those who share the lock
--
-- Returns {the first 512 bytes of the value, its SHA-1 or '' if there is no string, TTL left in ms or -1
-- for none, last fence or '', server's time in s, and us, {owner, arrival, alive until, ...}, how many
-- waiters there are, {fence of a shared lock, how many share it, owner, `end label`, ...}}. The last is
-- empty for a lock that is not shared. Holders whose leases have ended are left out.
--
-- It is one step so that the holders and the waiters are of the same moment. A value is told apart from
-- others by its SHA-1, since that of another client may be secret, and of any length.
--
-- What lies at the lock and is neither a string nor a shared lock is an error; foreign data in place of the
-- rest is left out.
local lock, queue, living, most = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1])

-- The answer, or nil where there is none.
local function try(...)
  local answer = redis.pcall(...)
  if not answer or type(answer) == 'table' and answer.err then
    return nil
  end
  return answer
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local value, holders = redis.pcall('GET', lock), {}
if type(value) == 'table' then
  if not string.find(value.err, '^WRONGTYPE') then
    return redis.call('GET', lock)
  end
  local epoch = string.match(redis.call('HGET', lock, '!') or '', '^(%d+) %d+$')
  if not epoch then
    return value
  end
  holders = {epoch, 0}
  local all = redis.call('HGETALL', lock)
  for at = 1, #all, 2 do
    local ends = tonumber(string.match(all[at + 1], '^(%d+) %S+$') or '0')
    if all[at] ~= '!' and ends > now then
      holders[2] = holders[2] + 1
      if holders[2] <= most then
        table.insert(holders, all[at])
        table.insert(holders, all[at + 1])
      end
    end
  end
  value = false
end

local waiters = {}
local queued = try('ZRANGE', queue, 0, most - 1, 'WITHSCORES') or {}
for at = 1, #queued, 2 do
  table.insert(waiters, queued[at])
  table.insert(waiters, queued[at + 1])
  table.insert(waiters, try('ZSCORE', living, queued[at]) or '0')
end

-- ZRANK of the last waiter instead of ZCARD: locks need permission for ZRANK anyway.
local last = (try('ZRANGE', queue, -1, -1) or {})[1]
local count = last and redis.call('ZRANK', queue, last) + 1 or 0

return {value and string.sub(value, 1, 512) or '', value and redis.sha1hex(value) or '',
  redis.call('PTTL', lock), try('GET', KEYS[4]) or '', time[1], time[2], waiters, count, holders}
