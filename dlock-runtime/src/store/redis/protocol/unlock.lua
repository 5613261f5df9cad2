-- Takes a lock away from whoever holds it, if that is still the lease that somebody has seen. The first
-- waiter gets the lock, or only the news.
--
-- KEYS[1]  the lock: a string `owner fence label`, or what another client wrote
-- KEYS[2]  its queue            KEYS[3]  its living
-- KEYS[4]  the last fence of the slot
-- ARGV[1]  an owner of the operator's own, which never holds anything when this is over
-- ARGV[2]  `owner fence` as it was seen, or '' if it was another client's
-- ARGV[3]  the SHA-1 of the value as it was seen, which counts for another client's only: that of
--          dlock may have got another label, and is the same lease
--
-- Returns 2 if a waiter has the lock now, 1 if it is free, 0 if it was not what was seen and nothing was
-- done.
--
-- It is one step because a lock may change hands between a look and the removal, and the next holder's
-- must not be removed. The slot's fence is raised first, above that of the lease, so that what its holder
-- still writes can be told to be late. Then the lock is made the operator's own, and given up by the
-- script `release`, whose text follows this one.
--
-- The holder is told by `owner 0 K` on the channel of its client, by the caller: not every server lets a
-- script publish. That may fail, and the holder then finds out when it renews.
--
-- GETEX instead of GET, because it counts as a write: what is seen must come from a master, and a server
-- that is out of memory refuses nothing to a script that has written. It is then most of all that
-- somebody wants a lock freed.
--
-- A counter that is foreign data is an error, and the lock stays: nobody could take it until the counter
-- is mended, and the old holder could not be told to be late.
local value = redis.call('GETEX', KEYS[1])
local seen = ARGV[2] ~= '' and ARGV[2] .. ' '
if not value or seen and string.sub(value, 1, #seen) ~= seen
  or not seen and redis.sha1hex(value) ~= ARGV[3] then
  return 0
end

do
  local text = redis.pcall('GET', KEYS[4]) or '0'
  local last = type(text) == 'string' and tonumber(text)
  if not last or last >= 2 ^ 52 or string.find(text, '%D') then
    return redis.error_reply('WRONGTYPE the fence counter at `' .. KEYS[4] .. '` is not a valid number, so '
      .. 'no client could acquire the lock; delete that key, because new fences come from the clock, and unlock again')
  end
  local held = tonumber(string.match(value, '^%S+ (%d+) %S+$') or '0')
  if held > last and held < 2 ^ 52 then
    last = held
  end
  local time = redis.call('TIME')
  local floor = (time[1] - 1704067200) * 100000 + math.floor(time[2] / 10)
  local raised = string.format('%.0f', math.max(last + 1, floor))
  redis.call('SET', KEYS[4], raised)
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. raised .. ' -', 'PX', 3000)
end

