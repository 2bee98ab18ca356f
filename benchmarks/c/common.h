/* What every kernel shares: arguments are one array of pointers (inputs in the order of the workload, then value and gradients);
   `measure` calls a kernel and times each call inside this library, so that no foreign-function call is in the figure. */
#ifndef COMMON_H
#define COMMON_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef void (*kernel)(void **);

#define IN(k) ((const float *)args[k])
#define INT(k) (*(const long *)args[k])
#define OUT(k) ((float *)args[k])

#endif
