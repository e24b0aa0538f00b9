/** The version of qkv, from CMakeLists.txt. */
declare const __VERSION__: string;
