/* SPDX-License-Identifier: Apache-2.0 */
/* edge/sample/data.c - the world in some three hundred corners, and what its parts are called.
 *
 * Drawn by hand from longitudes and latitudes at whole degrees; good enough to know where one is,
 * and for nothing else. */
#include "edge/sample/priv.h"

static const struct edg__spot north_america[] = {
    {137, 1039},  {273, 883},   {592, 917},   {740, 980},   {967, 949},   {1081, 949},
    {1115, 1143}, {978, 1212},  {1001, 1255}, {1115, 1296}, {1149, 1353}, {1161, 1143},
    {1252, 1166}, {1308, 1212}, {1411, 1334}, {1365, 1389}, {1297, 1389}, {1308, 1441},
    {1354, 1457}, {1297, 1489}, {1252, 1505}, {1206, 1551}, {1183, 1622}, {1126, 1677},
    {1138, 1754}, {1115, 1716}, {1092, 1690}, {1024, 1703}, {944, 1729},  {944, 1791},
    {978, 1840},  {1024, 1804}, {1058, 1804}, {1047, 1864}, {1104, 1875}, {1104, 1934},
    {1149, 1945}, {1138, 1968}, {1081, 1934}, {1001, 1887}, {944, 1864},  {853, 1816},
    {808, 1741},  {751, 1677},  {796, 1779},  {740, 1703},  {705, 1636},  {637, 1551},
    {637, 1424},  {569, 1296},  {455, 1189},  {341, 1189},  {250, 1255},  {171, 1296},
    {250, 1212},  {171, 1143}};
static const struct edg__spot greenland[] = {{1217, 579},  {1365, 314}, {1650, 198},  {1820, 391},
                                             {1820, 769},  {1752, 917}, {1593, 1066}, {1547, 1189},
                                             {1468, 1092}, {1434, 917}, {1365, 681}};
static const struct edg__spot south_america[] = {
    {1172, 1957}, {1229, 1910}, {1343, 1934}, {1468, 2002}, {1479, 2048}, {1547, 2082},
    {1650, 2116}, {1604, 2197}, {1593, 2292}, {1502, 2355}, {1445, 2460}, {1399, 2516},
    {1331, 2560}, {1297, 2639}, {1263, 2743}, {1206, 2743}, {1206, 2623}, {1217, 2502},
    {1240, 2406}, {1252, 2256}, {1183, 2209}, {1126, 2105}, {1138, 2037}, {1172, 2002}};
static const struct edg__spot europe_and_asia[] = {
    {1946, 1594}, {1946, 1505}, {2025, 1505}, {2037, 1457}, {2002, 1424}, {2071, 1371},
    {2139, 1315}, {2139, 1255}, {2185, 1315}, {2276, 1296}, {2321, 1234}, {2378, 1189},
    {2298, 1166}, {2321, 1066}, {2287, 1066}, {2241, 1166}, {2230, 1255}, {2173, 1212},
    {2116, 1234}, {2105, 1143}, {2207, 980},  {2344, 883},  {2514, 1010}, {2435, 1039},
    {2549, 1039}, {2674, 949},  {2822, 949},  {2879, 847},  {2958, 809},  {3231, 606},
    {3345, 769},  {3527, 883},  {3641, 809},  {3868, 917},  {4085, 949},  {4085, 1066},
    {3982, 1189}, {3903, 1189}, {3834, 1371}, {3823, 1234}, {3891, 1166}, {3755, 1212},
    {3607, 1315}, {3641, 1424}, {3550, 1505}, {3493, 1565}, {3516, 1622}, {3482, 1622},
    {3470, 1551}, {3425, 1565}, {3436, 1594}, {3402, 1622}, {3436, 1690}, {3379, 1779},
    {3288, 1804}, {3254, 1840}, {3288, 1910}, {3243, 1945}, {3186, 1899}, {3220, 2025},
    {3163, 1957}, {3163, 1864}, {3095, 1791}, {3038, 1804}, {2958, 1875}, {2958, 1934},
    {2924, 1957}, {2879, 1852}, {2867, 1804}, {2810, 1754}, {2697, 1741}, {2617, 1690},
    {2640, 1767}, {2685, 1741}, {2719, 1791}, {2640, 1864}, {2549, 1910}, {2492, 1804},
    {2446, 1703}, {2458, 1608}, {2355, 1594}, {2355, 1536}, {2458, 1521}, {2514, 1521},
    {2480, 1441}, {2401, 1457}, {2367, 1521}, {2310, 1551}, {2321, 1594}, {2264, 1536},
    {2196, 1473}, {2253, 1551}, {2230, 1580}, {2185, 1521}, {2139, 1489}, {2082, 1521},
    {2048, 1565}, {2025, 1601}};
static const struct edg__spot africa[] = {
    {1980, 1615}, {2162, 1594}, {2173, 1650}, {2276, 1677}, {2412, 1677},
    {2469, 1804}, {2537, 1910}, {2628, 1910}, {2594, 2002}, {2503, 2082},
    {2503, 2221}, {2446, 2280}, {2423, 2355}, {2355, 2460}, {2264, 2467},
    {2185, 2244}, {2196, 2139}, {2150, 2059}, {2150, 2002}, {2094, 1980},
    {1957, 1997}, {1900, 1957}, {1855, 1887}, {1866, 1804}, {1934, 1703}};
static const struct edg__spot madagascar[] = {
    {2606, 2186}, {2617, 2232}, {2583, 2342}, {2549, 2305}};
static const struct edg__spot australia[] = {{3345, 2305}, {3436, 2256}, {3527, 2186}, {3595, 2186},
                                             {3595, 2232}, {3652, 2244}, {3664, 2174}, {3709, 2268},
                                             {3789, 2355}, {3755, 2502}, {3698, 2531}, {3618, 2474},
                                             {3538, 2419}, {3459, 2446}, {3356, 2460}};
static const struct edg__spot new_zealand[] = {
    {4016, 2474}, {4073, 2516}, {4028, 2575}, {3959, 2647}, {4005, 2560}};
static const struct edg__spot britain[] = {{1991, 1353}, {2014, 1315}, {1980, 1255}, {2014, 1223},
                                           {2025, 1275}, {2059, 1334}, {2059, 1371}, {1991, 1389}};
static const struct edg__spot ireland[] = {{1934, 1315}, {1980, 1296}, {1980, 1353}, {1934, 1353}};
static const struct edg__spot iceland[] = {{1855, 1024}, {1889, 1066}, {1820, 1105}, {1775, 1052}};
static const struct edg__spot japan[] = {{3538, 1636}, {3607, 1594}, {3641, 1536},
                                         {3664, 1465}, {3698, 1505}, {3664, 1551},
                                         {3641, 1622}, {3584, 1636}, {3527, 1677}};
static const struct edg__spot borneo[] = {
    {3288, 2025}, {3379, 1968}, {3402, 2037}, {3368, 2094}, {3300, 2082}};
static const struct edg__spot sumatra[] = {{3129, 1985}, {3231, 2071}, {3254, 2116}, {3197, 2071}};
static const struct edg__spot java[] = {{3243, 2122}, {3345, 2134}, {3345, 2145}, {3254, 2134}};
static const struct edg__spot new_guinea[] = {{3538, 2059}, {3652, 2078}, {3721, 2116},
                                              {3755, 2168}, {3675, 2151}, {3618, 2139}};
static const struct edg__spot philippines[] = {
    {3425, 1840}, {3459, 1905}, {3482, 1968}, {3436, 1957}, {3413, 1875}};
static const struct edg__spot sri_lanka[] = {{2958, 1939}, {2981, 1968}, {2958, 1980}};
static const struct edg__spot cuba[] = {{1115, 1779}, {1172, 1806}, {1195, 1816}, {1081, 1791}};
static const struct edg__spot antarctica[] = {
    {0, 4076},    {0, 3517},    {341, 3464},  {910, 3287},  {1195, 3287}, {1365, 2991},
    {1343, 3370}, {1650, 3517}, {1934, 3213}, {2389, 3147}, {2731, 3086}, {3186, 3057},
    {3584, 3057}, {3868, 3179}, {3959, 3464}, {4096, 3517}, {4096, 4076}};
const struct edg__shape edg__shapes[] = {
    {"North America", north_america, RON_ARRAY_LEN(north_america)},
    {"Greenland", greenland, RON_ARRAY_LEN(greenland)},
    {"South America", south_america, RON_ARRAY_LEN(south_america)},
    {"Europe and Asia", europe_and_asia, RON_ARRAY_LEN(europe_and_asia)},
    {"Africa", africa, RON_ARRAY_LEN(africa)},
    {"Madagascar", madagascar, RON_ARRAY_LEN(madagascar)},
    {"Australia", australia, RON_ARRAY_LEN(australia)},
    {"New Zealand", new_zealand, RON_ARRAY_LEN(new_zealand)},
    {"Britain", britain, RON_ARRAY_LEN(britain)},
    {"Ireland", ireland, RON_ARRAY_LEN(ireland)},
    {"Iceland", iceland, RON_ARRAY_LEN(iceland)},
    {"Japan", japan, RON_ARRAY_LEN(japan)},
    {"Borneo", borneo, RON_ARRAY_LEN(borneo)},
    {"Sumatra", sumatra, RON_ARRAY_LEN(sumatra)},
    {"Java", java, RON_ARRAY_LEN(java)},
    {"New Guinea", new_guinea, RON_ARRAY_LEN(new_guinea)},
    {"Philippines", philippines, RON_ARRAY_LEN(philippines)},
    {"Sri Lanka", sri_lanka, RON_ARRAY_LEN(sri_lanka)},
    {"Cuba", cuba, RON_ARRAY_LEN(cuba)},
    {"Antarctica", antarctica, RON_ARRAY_LEN(antarctica)},
};

const size_t edg__shape_count = RON_ARRAY_LEN(edg__shapes);

const struct edg__label edg__labels[] = {
    {"North America", {910, 1473}, 0},
    {"South America", {1365, 2221}, 0},
    {"Africa", {2276, 1991}, 0},
    {"Europe", {2219, 1389}, 1},
    {"Asia", {3129, 1424}, 0},
    {"Australia", {3573, 2342}, 0},
    {"Antarctica", {2048, 3517}, 1},
    {"Greenland", {1582, 769}, 2},
    {"Pacific Ocean", {455, 1991}, 0},
    {"Atlantic Ocean", {1650, 1716}, 0},
    {"Indian Ocean", {2935, 2380}, 1},
    {"Southern Ocean", {1365, 2953}, 2},
    {"Arctic Ocean", {341, 522}, 2},
    {"Madagascar", {2583, 2268}, 3},
    {"New Zealand", {3994, 2591}, 2},
    {"Japan", {3618, 1594}, 3},
    {"Borneo", {3345, 2037}, 3},
    {"New Guinea", {3652, 2105}, 3},
    {"Iceland", {1832, 1066}, 3},
    {"Britain", {2025, 1334}, 3},
    {"Mediterranean Sea", {2253, 1622}, 3},
    {"Caribbean Sea", {1195, 1875}, 3},
};

const size_t edg__label_count = RON_ARRAY_LEN(edg__labels);

const int32_t edg__parallels[] = {726, 1189, 1473, 1690, 1875, 2048, 2221, 2406, 2623, 2907, 3370};
const size_t edg__parallel_count = RON_ARRAY_LEN(edg__parallels);
