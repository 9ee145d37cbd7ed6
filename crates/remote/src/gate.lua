-- One step of the shared gate, atomic, on the time of this server. The arithmetic is that of patra_core::gate::Limiter and
-- patra_core::gate::pace::Pace.
-- KEYS: epoch, state (hash), slots (list of times), permits (sorted set by end of life)
-- ARGV: as read below, then (requests, length) of every window, then permits handed back
-- Answer: {0} when this is not the server the epoch began on; else {1, now, ask again at, pace, pause ends at, (slot, permit)*}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return { 0 } end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local read = 1
local function number()
  read = read + 1
  return tonumber(ARGV[read])
end
local most, horizon, background = number(), number(), number() == 1
local fresh, late, burst, concurrency, cost, life = number(), number(), number(), number(), number(), number()
local pause, refused, contested_for = number(), number(), number()
local cool_down, hold_for, step, demote, floor, warm_up = number(), number(), number(), number(), number(), number()
local share, limit, per = number(), number(), number()
local below_refused, below_seen, declared, below_declared, taken_all = number(), number(), number(), number(), number()
local warm_from, count = number(), number()
local windows, longest, kept = {}, 0, 1
for at = 1, count do
  local requests, length = number(), number() + late
  windows[at] = { requests, length }
  longest, kept = math.max(longest, length), math.max(kept, requests)
end
-- As many again are remembered, for the refusal of a request that others followed.
kept = kept + limit
local refused_until = refused > 0 and tonumber(redis.call('ZSCORE', KEYS[4], refused) or nil)
for at = read + 1, #ARGV do redis.call('ZREM', KEYS[4], ARGV[at]) end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', string.format('%.0f', now))

local names = { 'arrival', 'cooldown', 'permit', 'low', 'hold', 'from', 'deaf', 'born', 'contested', 'backfill' }
local held_state, state = redis.call('HMGET', KEYS[2], unpack(names)), {}
for at, name in ipairs(names) do state[name] = tonumber(held_state[at] or nil) end
local begun = now + fresh
local starts = { arrival = begun, cooldown = begun, permit = 1, low = 1000000, hold = 1000000, from = 0, deaf = 0,
  born = begun, contested = 0, backfill = 0 }
for name, value in pairs(starts) do if not state[name] then state[name] = value end end

local function pace()
  local level = state.low
  local periods = math.floor(math.max(now - state.from, 0) / cool_down)
  if periods > 0 then
    local tried = periods - hold_for
    level = state.hold
    if tried > 0 then level = math.min(state.hold + step * (2 ^ math.min(tried, 20) - 1), 1000000) end
  end
  local age = math.max(now - state.born, 0)
  if age < warm_up then
    local part = math.min(math.floor(age / math.max(math.floor(warm_up / 1000), 1)), 1000)
    level = math.min(level, warm_from + math.floor((1000000 - warm_from) / 1000) * part)
  end
  return math.max(level, 1)
end
-- What was let through in the tightest window that ended with the refused request; nothing when it is forgotten.
local function seen()
  if not refused_until then return nil end
  local at, inside = refused_until - life, -cost
  local times = redis.call('LRANGE', KEYS[3], 0, -1)
  if #times >= kept and tonumber(times[1]) > at - per then return nil end
  for _, passed in ipairs(times) do
    passed = tonumber(passed)
    if passed > at - per and passed <= at then inside = inside + 1 end
  end
  return inside > 0 and inside or nil
end
if pause > 0 then state.cooldown = math.max(state.cooldown, now + pause) end
local function thousandths(level, share) return math.floor(level / 1000) * math.floor(share / 1000) end
if refused > 0 then
  local resumes, level, again = now + pause, pace(), now - state.from < cool_down * (hold_for + 1)
  state.from = math.max(state.from, resumes)
  if now >= state.deaf then
    local taken, low = seen(), math.floor(level * 1000 / demote)
    local target = thousandths(level, below_refused)
    if not taken then
      if again then target = low end
    elseif level >= declared and (taken + 1) * 1000000000 >= limit * level * taken_all then
      target = thousandths(level, below_declared)
      low = target
    else
      target = math.min(target, math.floor(taken * below_seen / limit))
      low = math.min(low, target)
    end
    state.low = math.min(math.max(low, floor), 1000000)
    state.hold = math.max(target, state.low)
    state.from, state.deaf = math.max(now, resumes), now + cool_down
  end
end

local level, spacing = pace(), 0
for _, window in ipairs(windows) do spacing = math.max(spacing, math.floor(window[2] / window[1])) end
spacing = math.floor(spacing * 1000000 / level)
local tolerance, waits = spacing * (burst - 1), false
local running, held = redis.call('ZCARD', KEYS[4]), redis.call('LLEN', KEYS[3])
local answer = { 1, now, now, level, state.cooldown }
for _ = 1, most do
  if background and now < state.contested and state.backfill > now then
    answer[3], waits = state.backfill, true
    break
  end
  local at = math.max(now, state.arrival, state.cooldown, tonumber(redis.call('LINDEX', KEYS[3], -1) or 0))
  for _, window in ipairs(windows) do
    local oldest = held + cost - window[1] - 1
    if oldest >= 0 and oldest < held then
      at = math.max(at, tonumber(redis.call('LINDEX', KEYS[3], oldest)) + window[2])
    end
  end
  if at > now + horizon then
    answer[3], waits = at, true
    break
  end
  if running >= concurrency then
    answer[3], waits = now + 20000, true
    break
  end
  if at > now then waits = true end
  state.arrival = math.max(state.arrival, at - tolerance) + spacing * cost
  if background then state.backfill = at + math.floor(spacing * cost * 1000 / share) end
  for _ = 1, cost do redis.call('RPUSH', KEYS[3], string.format('%.0f', at)) end
  redis.call('LTRIM', KEYS[3], -kept, -1)
  held = math.min(held + cost, kept)
  redis.call('ZADD', KEYS[4], string.format('%.0f', at + life), state.permit)
  running = running + 1
  answer[#answer + 1] = at
  answer[#answer + 1] = state.permit
  state.permit = state.permit + 1
end
if most > 0 and waits and not background then state.contested = math.max(state.contested, now + contested_for) end
-- A process of a release before reads the pace in thousandths.
local written = { 'pace', math.max(math.floor(level / 1000), 1) }
for _, name in ipairs(names) do
  written[#written + 1] = name
  written[#written + 1] = string.format('%.0f', state[name])
end
redis.call('HSET', KEYS[2], unpack(written))
-- An idle key may be forgotten: it then begins by waiting.
local keep = math.floor((math.max(longest, life, state.cooldown - now) + 3600000000) / 1000)
for at = 2, 4 do redis.call('PEXPIRE', KEYS[at], keep) end
return answer
