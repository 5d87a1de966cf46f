package capacity

// Older lets tests compare versions.
var Older = older
