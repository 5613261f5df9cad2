
-- What `acquire` does where holders or waiters share the lock, or where the caller wants to.
local wants = ARGV[6] or ''
local failure = read_holders()
if failure then
  return failure
end

if wants ~= '' and state == 'shared' and redis.call('HGET', lock, owner) then
  add_holder(redis.call, owner, tonumber(ttl), label, epoch)
  return tonumber(epoch)
end

-- A waiter that only wants to be told has no precedence, but one that wants the lock exclusively keeps new sharers
-- out. Returns the time until which it does so, in ms.
local function kept_out_until()
  for _, waiter in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    if waiter == place_of_owner then
      return nil
    end
    local until_ms = tonumber(redis.call('ZSCORE', living, waiter) or '0')
    if not string.find(waiter, '+', 1, true) and until_ms >= now then
      return until_ms
    end
  end
end

local foremost = state ~= 'exclusive' and grant_waiters(place_of_owner, false)
local is_next, kept_out = not foremost or foremost == place_of_owner, nil
if not is_next and string.sub(foremost, -1) == '!' then
  kept_out = wants ~= '' and kept_out_until()
  is_next = not kept_out
end

-- A refusal of the server is the answer: "held" would be taken for the truth by who does not wait.
local number
if is_next and admits(wants) then
  number = state == 'shared' and epoch or count_fence(redis.call)
end
if number then
  redis.call('ZREM', queue, place_of_owner)
  redis.call('ZREM', living, place_of_owner)
  if wants == '' then
    redis.call('SET', lock, owner .. ' ' .. number .. ' ' .. label, 'PX', ttl)
    return with_untold({tonumber(number)})
  end
  add_holder(redis.call, owner, tonumber(ttl), label, number)
  grant_waiters(nil, false)
  return with_untold({tonumber(epoch)})
end

local place = wait_in_queue()
local newest = tonumber(redis.call('GET', fence) or '0')
if state == 'free' then
  -- Nobody holds it: who was told that it is free has not come for it yet, or the server refuses to grant it.
  return with_untold({math.max((kept_out or now) - now, 1), place, newest, '', 0})
end
if state == 'exclusive' then
  -- Made the holder just now.
  return with_untold({redis.call('PTTL', lock), place, newest, '', tonumber(epoch or '0')})
end
-- Of all holders the one whose lease ends last; a permit is free when the first ends. Among many, a name is not
-- worth the time that the server would take to find it.
local latest, name = 0, ''
local holders = count <= 64 and redis.call('HGETALL', lock) or {}
for at = 1, #holders, 2 do
  local ends, word = string.match(holders[at + 1], '^(%d+) (%S+)$')
  if holders[at] ~= '!' and ends and tonumber(ends) > latest then
    latest, name = tonumber(ends), word
  end
end
if latest == 0 then
  latest = now + redis.call('PTTL', lock)
end
local until_free = tonumber(string.sub(wants, 2)) and earliest or latest
return with_untold({math.max(until_free - now, 1), place, newest, name, tonumber(epoch), count - 1})
