-- Takes a lock away from whoever holds it, if that is still the lease that somebody has seen. The first
-- waiter gets the lock, or only the news; of a shared lock, all waiters that may have it together.
--
-- KEYS[1]  the lock: a string `owner fence label`, a hash if it is shared, or what another client wrote
-- KEYS[2]  its queue            KEYS[3]  its living
-- KEYS[4]  the last fence of the slot
-- ARGV[1]  an owner of the operator's own, which never holds anything when this is over
-- ARGV[2]  `owner fence` as it was seen, `* fence` for all who share the lock, or '' if it was another client's
-- ARGV[3]  the SHA-1 of the value as it was seen, which counts for another client's only: that of
--          dlock may have got another label, and is the same lease
--
-- Returns 3 if others share the lock, 2 if a waiter has the lock now, 1 if it is free, 0 if it was not what
-- was seen and nothing was done.
--
-- It is one step because a lock may change hands between a look and the removal, and the next holder's
-- must not be removed. The slot's fence is raised first, above that of the lease, so that what its holder
-- still writes can be told to be late. Then the lock is made the operator's own, and given up by the
-- script `release`, whose text follows this one. A lease of a shared lock is given up in its owner's name.
-- Those who share a lock carry one fence: while others stay, what the one who lost it writes cannot be told
-- from what they write.
--
-- The holder is told by `owner 0 K` on the channel of its client, by the caller: not every server lets a
-- script publish. That may fail, and the holder then finds out when it renews. Where all lose a shared
-- lock, the caller has not seen those who came since, so the script tells them, if it may.
--
-- GETEX instead of GET, because it counts as a write: what is seen must come from a master, and a server
-- that is out of memory refuses nothing to a script that has written. It is then most of all that
-- somebody wants a lock freed.
--
-- A counter that is foreign data is an error, and the lock stays: nobody could take it until the counter
-- is mended, and the old holder could not be told to be late.
local value = redis.pcall('GETEX', KEYS[1])
local seen = ARGV[2] ~= '' and ARGV[2] .. ' '
local epoch, leases
if type(value) == 'table' then
  if not string.find(value.err, '^WRONGTYPE') then
    return redis.call('GETEX', KEYS[1])
  end
  -- The write before the read of a hash.
  redis.call('HDEL', KEYS[1], ' ')
  epoch = string.match(redis.call('HGET', KEYS[1], '!') or '', '^(%d+) %d+$')
  local owner, fence = string.match(ARGV[2], '^(%S+) (%d+)$')
  if not epoch or fence ~= epoch then
    return 0
  end
  leases = {}
  local time = redis.call('TIME')
  local all = redis.call('HGETALL', KEYS[1])
  for at = 1, #all, 2 do
    local ends = tonumber(string.match(all[at + 1], '^(%d+) ') or '0')
    local is_wanted = owner == '*' or owner == all[at]
    if all[at] ~= '!' and is_wanted and ends > time[1] * 1000 + math.floor(time[2] / 1000) then
      table.insert(leases, all[at])
    end
  end
  if #leases == 0 then
    return 0
  end
elseif not value or seen and string.sub(value, 1, #seen) ~= seen
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
  local held = tonumber(epoch or string.match(value, '^%S+ (%d+) %S+$') or '0')
  if held < 2 ^ 52 then
    last = math.max(last, held)
  end
  local time = redis.call('TIME')
  local floor = (time[1] - 1704067200) * 100000 + math.floor(time[2] / 10)
  local raised = string.format('%.0f', math.max(last + 1, floor))
  redis.call('SET', KEYS[4], raised)
  if leases then
    local namespace, name = string.match(KEYS[2], '^(.-):{(.*)}:r?q$')
    for at = 2, #leases do
      redis.call('HDEL', KEYS[1], leases[at])
    end
    for at = 1, string.sub(ARGV[2], 1, 1) == '*' and #leases or 0 do
      local channel = namespace .. ':wake:' .. string.match(leases[at], '^[^.]*')
      redis.pcall('PUBLISH', channel, leases[at] .. ' 0 ' .. name)
    end
    ARGV[1], ARGV[4] = leases[1], '+'
  else
    redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. raised .. ' -', 'PX', 3000)
  end
end

