/* bcryptprimitives.dll for Wine 8, which lacks it: the one function from which Rust's std takes its random numbers. */
#include <windows.h>

BOOLEAN WINAPI SystemFunction036(PVOID buffer, ULONG length); /* RtlGenRandom, in advapi32 */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length)
{
    while (length > 0) {
        ULONG piece = length > 0x10000000 ? 0x10000000 : (ULONG)length;
        if (!SystemFunction036(buffer, piece)) return FALSE;
        buffer += piece;
        length -= piece;
    }
    return TRUE;
}
