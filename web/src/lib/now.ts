import { useEffect, useState } from "react";

/** The wall clock for countdowns and ages, read again every `seconds`. */
export function useNow(seconds: number): Date {
  const [now, setNow] = useState(() => new Date());
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return now;
}
