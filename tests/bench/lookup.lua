-- Asks for a different key of the view `spent` with each request.
local n = 0
request = function()
    n = (n + 7919) % 100000
    return wrk.format("GET", "/api/v1/queryable_state/spent?key=" .. n)
end
